// Runs one scenario: node tests/browser/run.mjs NAME
const name = process.argv[2];
const { default: scenario } = await import(`./scenarios/${name}.mjs`);
try {
  await scenario();
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
