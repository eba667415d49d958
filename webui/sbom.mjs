// Writes the bill of materials of the built page in the format of CycloneDX: node sbom.mjs FILE
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";

// `--omit=dev` would also omit what a development tool needs, too, such as React.
const sbom = JSON.parse(
  execFileSync("npm", ["sbom", "--package-lock-only", "--sbom-format=cyclonedx"], {
    encoding: "utf8",
    maxBuffer: 2 ** 26,
  }),
);
const isTool = ({ properties = [] }) =>
  properties.some(({ name }) => name === "cdx:npm:package:development");
sbom.components = sbom.components.filter((component) => !isTool(component));
const kept = new Set(
  [sbom.metadata.component, ...sbom.components].map((component) => component["bom-ref"]),
);
sbom.dependencies = sbom.dependencies
  .filter(({ ref }) => kept.has(ref))
  .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((other) => kept.has(other)) }));
// Without time and random number: the same lock gives the same file.
delete sbom.serialNumber;
delete sbom.metadata.timestamp;
writeFileSync(process.argv[2], JSON.stringify(sbom, null, 1));
