import type { MiddlewareHandler } from 'hono'
import { getCookie, setCookie } from 'hono/cookie'
import { secureHeaders } from 'hono/secure-headers'
import { isToken } from './token.ts'

/** Nothing from elsewhere, nothing inline, and no other page may embed this one. */
export const headers: MiddlewareHandler = secureHeaders({
  contentSecurityPolicy: {
    defaultSrc: ["'none'"],
    scriptSrc: ["'self'"],
    styleSrc: ["'self'"],
    imgSrc: ["'self'", 'data:'],
    connectSrc: ["'self'"],
    baseUri: ["'none'"],
    formAction: ["'none'"],
    frameAncestors: ["'none'"],
  },
  xFrameOptions: 'DENY',
  referrerPolicy: 'no-referrer',
  strictTransportSecurity: false,
})

/**
 * Lets in only who knows the token, under a name of this machine, and from a page of this server. The Host check is what
 * stops a foreign name that resolves to 127.0.0.1 (DNS rebinding); the Origin check, requests that another site makes
 * with the visitor's cookie.
 */
export function guard(token: string, port: () => number): MiddlewareHandler {
  return async (context, next) => {
    const own = ['127.0.0.1', 'localhost', '[::1]'].map((host) => `${host}:${port()}`)
    if (!own.includes(context.req.header('host') ?? '')) return context.text('this dashboard has another name', 421)
    const origin = context.req.header('origin')
    const mustSay = context.req.method !== 'GET' && context.req.method !== 'HEAD'
    if (origin === undefined ? mustSay : !own.some((host) => origin === `http://${host}`)) {
      return context.text('requests from other pages are refused', 403)
    }
    // Cookies are shared by all ports of a host, so the name has the port.
    const cookie = `egpu-dashboard-${port()}`
    if (context.req.path === '/' && isToken(token, context.req.query('token'))) {
      setCookie(context, cookie, token, { httpOnly: true, sameSite: 'Strict', path: '/' })
      return context.redirect('/', 303)
    }
    if (!isToken(token, getCookie(context, cookie))) {
      return context.text('open the address that `egpu dashboard` printed: it has the token', 401)
    }
    await next()
  }
}
