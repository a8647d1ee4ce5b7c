export { ExitCode, runCli } from './cli.ts'
export { processTerminal } from './output/terminal.ts'
export type { Terminal } from './output/terminal.ts'
