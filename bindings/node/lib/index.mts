/** The same for `import`: one copy of every class, whichever way it is loaded. */

export * from "./index.cjs";
