/** Thunderbolt generations. `thunderboltTable` has their numbers. */
export const ThunderboltSpeed = {
  TB1: 'thunderbolt-1',
  TB2: 'thunderbolt-2',
  TB3: 'thunderbolt-3',
  TB4: 'thunderbolt-4',
  TB5: 'thunderbolt-5',
} as const
export type ThunderboltSpeed = (typeof ThunderboltSpeed)[keyof typeof ThunderboltSpeed]
