/**
 * What another machine calls itself, fit for a line of text: no control characters, line separators, marks that turn the
 * direction of writing or halves of characters; 128 characters at most.
 */
export function plainText(text: string): string {
  return Array.from(text.replace(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Cs}]/gu, ''))
    .slice(0, 128)
    .join('')
}
