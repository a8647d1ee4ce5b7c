import { createHash } from 'node:crypto'
import { parseForeign } from '../checkpoint/foreign-json.ts'
import { messageOf } from '../failure.ts'

/** Two lines: what it is, its version and the SHA-256 of the rest; then the rest as JSON. */
export function seal(kind: string, version: number, body: unknown): Uint8Array {
  const text = Buffer.from(JSON.stringify(body))
  return Buffer.concat([Buffer.from(`${kind} ${version} ${sha256(text)}\n`), text])
}

/** `fail` makes the error for anything that is not what was sealed. `body` is checked and parsed when it is called. */
export function unseal(
  kind: string,
  bytes: Uint8Array,
  fail: (why: string) => Error,
): { readonly version: string; readonly body: () => unknown } {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const lineEnd = all.indexOf('\n')
  const [found, version, root, ...rest] = all.subarray(0, Math.max(0, lineEnd)).toString('latin1').split(' ')
  if (found !== kind || version === undefined || root === undefined || rest.length > 0) {
    throw fail('it does not begin as it should')
  }
  return {
    version,
    body: () => {
      const text = all.subarray(lineEnd + 1)
      if (sha256(text) !== root) throw fail('its SHA-256 does not match its content')
      try {
        return parseForeign(text)
      } catch (error) {
        throw fail(messageOf(error))
      }
    },
  }
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}
