import { survive } from './survive.ts'

console.log(`${await survive(100_000, console.log)} primes up to 100000`)
