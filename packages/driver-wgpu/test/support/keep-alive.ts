/** Waits for something that does not keep Node alive by itself, such as the loss of an idle device. */
export async function staying<T>(promise: Promise<T>): Promise<T> {
  const timer = setInterval(() => {}, 1000)
  try {
    return await promise
  } finally {
    clearInterval(timer)
  }
}
