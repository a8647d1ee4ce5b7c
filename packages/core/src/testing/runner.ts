/** What a test body is handed; both vitest and `node:test` offer `skip`. */
export interface TestContext {
  skip?(reason?: string): void
}

/** The functions of a test runner that the suite needs; vitest and `node:test` both have them. */
export interface Runner {
  readonly describe: (name: string, body: () => void) => unknown
  readonly it: (name: string, body: (context: TestContext) => Promise<void>) => unknown
}
