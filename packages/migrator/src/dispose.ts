/**
 * Lets go of what is not waited for: it may be a call into a device that is gone. What a workload gave may also be
 * nothing that can be let go of; neither is anybody's surprise.
 */
export function dispose(resource: AsyncDisposable): void {
  const close = async (): Promise<void> => resource[Symbol.asyncDispose]()
  close().catch(() => undefined)
}
