/** One row of an id table: a PCI vendor and its devices, with where that is written down. */
export interface PciIdRow {
  readonly vendorId: number
  readonly deviceIds: readonly number[]
  readonly name: string
  readonly source: string
}

/** Something that has PCI ids. */
export interface WithPciId {
  readonly vendorId?: number | undefined
  readonly deviceId?: number | undefined
}

/** A lookup over rows; made once per table, asked once per bridge. */
export function pciIdLookup<Row extends PciIdRow>(rows: readonly Row[]): (device: WithPciId) => Row | undefined {
  const byId = new Map<string, Row>()
  for (const row of rows) for (const deviceId of row.deviceIds) byId.set(`${row.vendorId}:${deviceId}`, row)
  return ({ vendorId, deviceId }) =>
    vendorId === undefined || deviceId === undefined ? undefined : byId.get(`${vendorId}:${deviceId}`)
}
