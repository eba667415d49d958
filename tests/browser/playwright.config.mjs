// tests/browser/conftest.py starts Skep and runs these tests one by one. Against a running Skep:
//   SKEP_URL=… SKEP_USER=… SKEP_PASSWORD=… node webui/node_modules/@playwright/test/cli.js \
//     test --config tests/browser submit_and_watch
export default {
  testDir: "scenarios",
  testMatch: "*.spec.mjs",
  outputDir: "../../test-results/playwright",
  reporter: "line",
  forbidOnly: true,
  // They share one cluster of two nodes.
  workers: 1,
  timeout: 380_000,
  expect: { timeout: 60_000 },
  use: {
    baseURL: process.env.SKEP_URL,
    viewport: { width: 1440, height: 900 },
    actionTimeout: 60_000,
    navigationTimeout: 60_000,
    launchOptions: {
      // The distribution's: Playwright's own builds are not downloaded.
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
      ],
    },
  },
};
