import boundaries from "eslint-plugin-boundaries";
import { createTypeScriptImportResolver } from "eslint-import-resolver-typescript";
import { importX } from "eslint-plugin-import-x";
import reactHooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

/** What each part of `src` may import, beside itself; `app` may import everything. */
const LAYERS = {
  page: ["feature", "ui", "live", "api", "format"],
  feature: ["feature", "ui", "live", "api", "format"],
  ui: ["api", "format"],
  live: [],
  api: [],
  format: [],
  test: ["app", "api"],
};

const policies = Object.entries(LAYERS).map(([type, below]) => ({
  from: { element: { type } },
  allow: { to: { element: { types: { anyOf: below } } } },
}));

export default tseslint.config(
  { ignores: ["node_modules", "src/api/schema.d.ts"] },
  ...tseslint.configs.strict,
  reactHooks.configs.flat["recommended-latest"],
  {
    rules: {
      "@typescript-eslint/consistent-type-imports": "error",
      "no-console": "error",
      eqeqeq: ["error", "always", { null: "ignore" }],
      // It warns of the React Compiler, which this build does not use.
      "react-hooks/incompatible-library": "off",
    },
  },
  {
    files: ["src/**/*.{ts,tsx}"],
    plugins: { boundaries, "import-x": importX },
    settings: {
      "import/resolver": { typescript: true },
      ...importX.flatConfigs.typescript.settings,
      "import-x/resolver-next": [createTypeScriptImportResolver()],
      "boundaries/include": ["src/**/*"],
      "boundaries/elements": [
        // A page is a folder: pages do not import each other, what they share is a feature.
        { type: "page", pattern: "src/pages/*", capture: ["name"] },
        { type: "feature", pattern: "src/features/*", capture: ["name"] },
        { type: "app", pattern: "src/{app,styles}" },
        ...["ui", "live", "api", "format", "test"].map((type) => ({
          type,
          pattern: `src/${type}`,
        })),
      ],
      "boundaries/files": [{ category: "test", pattern: "**/*.test.{ts,tsx}" }],
    },
    rules: {
      "import-x/no-cycle": "error",
      "boundaries/no-unknown-files": "error",
      "boundaries/no-unknown-dependencies": "error",
      "boundaries/dependencies": [
        "error",
        {
          default: "disallow",
          policies: [
            { from: { element: { type: "app" } }, allow: { to: { element: { type: "*" } } } },
            ...policies,
            {
              from: { file: { categories: "test" } },
              allow: { to: { element: { types: { anyOf: ["test"] } } } },
            },
            { allow: { to: { module: { origin: "external" } } } },
          ],
        },
      ],
    },
  },
);
