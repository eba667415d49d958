/** A token that nobody has used before. (`crypto.randomUUID` is absent over plain HTTP.) */
export function freshToken(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
