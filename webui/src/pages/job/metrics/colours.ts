export type Scheme = "light" | "dark";

/** Colours that a canvas understands; it knows no CSS variables. */
export function lineColour(index: number, scheme: Scheme): string {
  const hue = Math.round((70 + index * 137.508) % 360);
  return scheme === "dark" ? `oklch(0.78 0.13 ${hue})` : `oklch(0.58 0.15 ${hue})`;
}

export function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
