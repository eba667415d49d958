/// <reference types="vitest/config" />
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const server = process.env.SKEP_URL ?? "http://127.0.0.1:8470";

/** Writes a .gz beside each asset that gains by it; the server sends that to who takes it. */
function compressed(): Plugin {
  return {
    name: "compressed-assets",
    apply: "build",
    writeBundle({ dir = "" }) {
      for (const name of readdirSync(dir, { recursive: true, encoding: "utf8" })) {
        if (!/\.(js|css|svg|json)$/.test(name)) continue;
        const content = readFileSync(`${dir}/${name}`);
        const packed = gzipSync(content, { level: 9 });
        if (packed.length < content.length * 0.9) writeFileSync(`${dir}/${name}.gz`, packed);
      }
    },
  };
}

const page = {
  include: ["src/**/*.test.tsx", "src/**/*.dom.test.ts"],
  environment: "jsdom",
  setupFiles: ["src/test/setup.ts"],
};

/** The tests that replace modules, for all that are loaded after them. */
const mocking = readdirSync("src", { recursive: true, encoding: "utf8" })
  .filter((name) => /\.test\.tsx?$/.test(name))
  .map((name) => `src/${name}`)
  .filter((path) => readFileSync(path, "utf8").includes("vi.mock("));

export default defineConfig(({ command }) => ({
  // Django serves index.html at every page address and the assets under its static root.
  base: command === "build" ? "/static/webui/" : "/",
  plugins: [react(), compressed()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    outDir: "../platform/skep_platform/web/static/webui",
    emptyOutDir: true,
    target: "es2022",
    // The page's security policy allows no data: fonts or scripts.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 600,
    // What most pages share arrives in two files instead of dozens, each with its own request.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: "components", test: /\/node_modules\//, minShareCount: 8 },
            { name: "shared", test: /\/src\/(api|features|format|live|ui)\//, minShareCount: 6 },
          ],
        },
      },
    },
  },
  server: {
    // The server compares where a page comes from with the host it was asked at: keep the latter.
    proxy: {
      "/api": { target: server, changeOrigin: false },
      "/ws": { target: server, changeOrigin: false, ws: true },
    },
  },
  test: {
    // A slow machine's; with time for several waits of a test (see src/test/setup.ts).
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // The colours, which a test reads; the style sheets of components are empty in tests.
    css: { include: [/\/src\/styles\//] },
    // A world of its own for each file (modules, document) takes most of the time. So files share
    // one, but for those that replace modules; most tests need no document.
    projects: [
      {
        extends: true,
        test: {
          name: "pure",
          include: ["src/**/*.test.ts"],
          exclude: ["src/**/*.dom.test.ts"],
          isolate: false,
        },
      },
      { extends: true, test: { ...page, name: "page", exclude: mocking, isolate: false } },
      { extends: true, test: { ...page, name: "mocking", include: mocking } },
    ],
  },
}));
