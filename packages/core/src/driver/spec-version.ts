/** Versions of the driver contract this core understands, newest last. */
export const acceptedSpecVersions: readonly number[] = [1]
