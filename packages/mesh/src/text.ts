/** What another machine calls itself, fit for a line of text: no control characters or line separators, 128 at most. */
export function plainText(text: string): string {
  // oxlint-disable-next-line no-control-regex -- control characters are the point
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, '').slice(0, 128)
}
