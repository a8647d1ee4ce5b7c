import { render } from 'preact'
import { App } from './app.tsx'
import { follow } from './store.ts'
import './page.css'

const root = document.querySelector('#app')
if (root !== null) {
  follow()
  render(<App />, root)
}
