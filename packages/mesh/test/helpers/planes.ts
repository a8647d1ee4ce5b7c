import { randomBytes } from 'node:crypto'
import { ControlPlane, type ControlPlaneOptions, type Refusal } from '../../src/control/control-plane.ts'
import { temporaryIdentity, type MeshIdentity } from '../../src/identity/identity.ts'

/** One side of a connection over loopback, with what it refused. */
export interface Side extends AsyncDisposable {
  readonly plane: ControlPlane
  readonly identity: MeshIdentity
  readonly port: number
  readonly refusals: Refusal[]
}

export async function side(
  trusts: (peerId: string) => boolean,
  options: Partial<ControlPlaneOptions> = {},
): Promise<Side> {
  const refusals: Refusal[] = []
  const identity = options.identity ?? temporaryIdentity()
  const plane = new ControlPlane({
    identity,
    name: 'host',
    instance: randomBytes(8).toString('hex'),
    hostTag: randomBytes(8).toString('hex'),
    visitor: false,
    isPaired: trusts,
    cableOf: () => undefined,
    heartbeatPort: undefined,
    onRefusal: (refusal) => refusals.push(refusal),
    ...options,
  })
  const port = await plane.listen(0)
  return { plane, identity, port, refusals, [Symbol.asyncDispose]: () => plane.close() }
}

/** Two sides that trust each other and nobody else. */
export async function pair(
  ofA: Partial<ControlPlaneOptions> = {},
  ofB: Partial<ControlPlaneOptions> = {},
): Promise<{ readonly a: Side; readonly b: Side } & AsyncDisposable> {
  const [idA, idB] = [ofA.identity ?? temporaryIdentity(), ofB.identity ?? temporaryIdentity()]
  const a = await side((peer) => peer === idB.nodeId, { name: 'a', identity: idA, ...ofA })
  const b = await side((peer) => peer === idA.nodeId, { name: 'b', identity: idB, ...ofB })
  return {
    a,
    b,
    [Symbol.asyncDispose]: async () => {
      await a[Symbol.asyncDispose]()
      await b[Symbol.asyncDispose]()
    },
  }
}

/** Resolves once `condition` holds; the test's own timeout ends a wait in vain. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5))
}
