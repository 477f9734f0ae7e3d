/** What an object has itself: names that others chose may be those of its prototype, such as `constructor`. */
export function own<T>(values: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined;
}
