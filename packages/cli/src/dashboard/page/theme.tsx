import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'

const themes = ['auto', 'light', 'dark'] as const
type Theme = (typeof themes)[number]
const key = 'egpu-theme'

/** Told to whoever paints pixels by hand. */
export const themeChanged = 'egpu-theme-changed'

export function ThemeSwitch(): JSX.Element {
  const [theme, setTheme] = useState<Theme>(() => themes.find((name) => name === localStorage.getItem(key)) ?? 'auto')
  useEffect(() => {
    localStorage.setItem(key, theme)
    document.documentElement.dataset['theme'] = theme
    window.dispatchEvent(new Event(themeChanged))
  }, [theme])
  return (
    <label class="theme">
      Theme{' '}
      <select value={theme} onChange={({ currentTarget }) => setTheme(currentTarget.value as Theme)}>
        {themes.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  )
}
