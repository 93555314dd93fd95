import { defineConfig, type UserConfig } from 'vite';

/** Three files with fixed names: the gateway serves these and no others. */
const config: UserConfig = defineConfig({
  root: import.meta.dirname,
  base: '/ui/',
  publicDir: 'public',
  logLevel: 'warn',
  build: {
    outDir: '../gateway/dist/dashboard',
    emptyOutDir: true,
    target: 'es2022',
    // A page of the gateway loads nothing but these files, not even as a data URL.
    assetsInlineLimit: 0,
    modulePreload: false,
    rolldownOptions: {
      output: {
        entryFileNames: 'dashboard.js',
        assetFileNames: 'dashboard[extname]',
      },
    },
  },
});

export default config;
