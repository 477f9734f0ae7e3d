// A reporter that counts the tests of each file, for the table of frameworks: as JSON, at the end.

export default async function* counts(source) {
  const files = {};
  for await (const { type, data } of source) {
    if ((type !== "test:pass" && type !== "test:fail") || data.details?.type === "suite" || !data.file) continue;
    const file = data.file.split(/[\\/]/).at(-1).replace(".test.mjs", "");
    const found = (files[file] ??= { tests: 0, failed: [] });
    if (type === "test:pass") found.tests += 1;
    else found.failed.push(data.name);
  }
  yield `${JSON.stringify(files)}\n`;
}
