import { isMap, parseDocument } from "yaml";

const PLACE = ["extras", "skep", "workingFiles"];
const PATH = "/workspace";

/** The job file with its working files set; null where it is no mapping to set anything in. */
export function withFiles(text: string, sha256: string): string | null {
  const document = parseDocument(text);
  if (document.errors.length > 0 || !isMap(document.contents)) return null;
  const path = document.getIn([...PLACE, "path"]) ?? PATH;
  try {
    document.setIn(PLACE, document.createNode({ archive: `sha256:${sha256}`, path }));
  } catch {
    return null; // `extras` or `skep` is something else than a mapping
  }
  return document.toString({ lineWidth: 0, flowCollectionPadding: false });
}
