export { directoryStore } from './directory-store.ts'
export type { DirectoryStore, DirectoryStoreOptions } from './directory-store.ts'
export { nodeFs } from './store-fs.ts'
export type { StoreEntry, StoreFile, StoreFs } from './store-fs.ts'
