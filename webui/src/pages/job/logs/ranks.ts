/** A colour per rank, far from its neighbours' (the golden angle), readable on both backgrounds:
 * lightness comes from the scheme. */
export function rankColour(rank: number): string {
  const hue = Math.round((60 + rank * 137.508) % 360);
  return `oklch(var(--rank-l) var(--rank-c) ${hue})`;
}
