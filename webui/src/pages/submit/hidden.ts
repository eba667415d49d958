import { isMap, isScalar, parseDocument, visit } from "yaml";

/** What the server shows in the place of a secret's value. */
export const HIDDEN = "******";

/** Whether the job file has secrets whose values somebody has to type again. */
export function hasHiddenSecrets(text: string): boolean {
  if (!text.includes(HIDDEN)) return false;
  const secrets = parseDocument(text).get("secrets", true);
  if (!isMap(secrets)) return false;
  let hidden = false;
  visit(secrets, (key, node) => {
    if (key !== "key" && isScalar(node) && node.value === HIDDEN) hidden = true;
  });
  return hidden;
}
