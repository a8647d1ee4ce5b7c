import { EGpuError, EGpuErrorCode } from '@egpu/core'

/** What etcd says of itself with every answer. */
interface Header {
  readonly cluster_id: string
  readonly revision: string
}

export interface EtcdMoment {
  readonly clusterId: string
  readonly revision: number
}

/**
 * The latest that was heard of a cluster. Fencing tokens are revisions, so they only rise for as long as it is the same cluster and
 * loses nothing.
 */
export class EtcdHistory {
  readonly #where: string
  #latest: EtcdMoment | undefined

  constructor(where: string) {
    this.#where = where
  }

  /** To be taken before a question is sent: what is answered then is not older. */
  get latest(): EtcdMoment | undefined {
    return this.#latest
  }

  /** Throws `EGPU_MALFORMED_DATA` for an answer of another cluster, or of one that went back in time. */
  hear(header: Header, before: EtcdMoment | undefined): void {
    const now = { clusterId: header.cluster_id, revision: Number(header.revision) }
    if (before !== undefined && now.clusterId !== before.clusterId)
      throw this.#broken(`is another cluster than before (${now.clusterId}, it was ${before.clusterId})`)
    if (before !== undefined && now.revision < before.revision)
      throw this.#broken(`went back from revision ${before.revision} to ${now.revision}`)
    if (this.#latest === undefined || now.revision > this.#latest.revision) this.#latest = now
  }

  #broken(what: string): EGpuError {
    return new EGpuError(
      EGpuErrorCode.MalformedData,
      `etcd at ${this.#where} ${what}: it lost its data, was restored from a backup, or the address is wrong. Who owns what can no ` +
        'longer be told by it; restore it with --bump-revision above what it had, then restart what runs here',
    )
  }
}
