export { driverCompliance } from './suite.ts'
export type { ComplianceOptions, ExpectedFailure } from './suite.ts'
export type { HandName, Hands, Rig } from './rig.ts'
export type { Runner, TestContext } from './runner.ts'
