/** Where NVIDIA's libraries are; a test hands over its own. */
export interface LibraryOptions {
  /** `libnvidia-ml.so.1` by default. */
  readonly nvmlLibrary?: string | undefined
  /** `libcuda.so.1` by default. */
  readonly cudaLibrary?: string | undefined
}

export function librariesOf({
  nvmlLibrary,
  cudaLibrary,
}: LibraryOptions): Required<Readonly<Record<keyof LibraryOptions, string>>> {
  return { nvmlLibrary: nvmlLibrary ?? 'libnvidia-ml.so.1', cudaLibrary: cudaLibrary ?? 'libcuda.so.1' }
}
