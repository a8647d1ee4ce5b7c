/**
 * The 64-bit UID of a router as 16 hex digits, most significant byte first, out of its `unique_id`. The kernel makes
 * the UUID of the UID in little-endian bytes and fills up with ones (drivers/thunderbolt/switch.c): UID
 * 0123456789abcdef is `efcdab89-6745-2301-ffff-ffffffffffff`. Firmware connection managers hand out UUIDs of their own,
 * which hold no UID: then `undefined`.
 */
export function routerUidOf(uniqueId: string | undefined): string | undefined {
  if (uniqueId?.endsWith('-ffff-ffffffffffff') !== true) return undefined
  const bytes = uniqueId.replaceAll('-', '').slice(0, 16).match(/../g)
  return bytes?.reverse().join('')
}
