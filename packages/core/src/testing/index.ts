/** The functions of a test runner that the suite needs; vitest and `node:test` both have them. */
export interface Runner {
  describe(name: string, body: () => void): void
  it(name: string, body: () => Promise<void> | void): void
}
