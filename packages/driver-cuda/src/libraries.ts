/** Where NVIDIA's libraries and device nodes are; a test hands over its own. */
export interface LibraryOptions {
  /** `libnvidia-ml.so.1` by default. */
  readonly nvmlLibrary?: string | undefined
  /** `libcuda.so.1` by default. */
  readonly cudaLibrary?: string | undefined
  /** What has `ioctl`: `libc.so.6` by default. */
  readonly systemLibrary?: string | undefined
  /** `/dev` by default. */
  readonly devRoot?: string | undefined
}

export function librariesOf({
  nvmlLibrary,
  cudaLibrary,
  systemLibrary,
  devRoot,
}: LibraryOptions): Required<Readonly<Record<keyof LibraryOptions, string>>> {
  return {
    nvmlLibrary: nvmlLibrary ?? 'libnvidia-ml.so.1',
    cudaLibrary: cudaLibrary ?? 'libcuda.so.1',
    systemLibrary: systemLibrary ?? 'libc.so.6',
    devRoot: devRoot ?? '/dev',
  }
}
