/**
 * SMBIOS chassis types of machines that have no slot for a desktop card: portable (8), laptop (9), notebook (10),
 * hand held (11), sub notebook (14), tablet (30), convertible (31), detachable (32). A desktop card on such a machine
 * hangs on a cable. Source: DMTF DSP0134, table 17.
 */
export const portableChassisTypes: ReadonlySet<number> = new Set([8, 9, 10, 11, 14, 30, 31, 32])
