import { describe, expect, test } from "vitest";
import { lineColor } from "@/features/metrics/charts";
import ansi from "./ansi.css?raw";
import tokens from "./tokens.css?raw";

type Rgb = [number, number, number];
type Scheme = "light" | "dark";

/** What WCAG 2.2 AA asks of text, and of icons, lines of charts and the frame around the focus. */
const TEXT = 4.5;
const GRAPHIC = 3;
const BACKGROUNDS = ["bg", "surface", "sunken", "hover", "accent-wash"];
const STATES = [
  ...["waiting", "preparing", "running", "succeeded", "failed"],
  ...["stopped", "stopping", "lost"],
];
const RANKS = Array.from({ length: 360 }, (_, hue) => hue);

describe.each<Scheme>(["light", "dark"])("in the %s scheme", (scheme) => {
  const values = tokensOf(scheme);
  const colour = (name: string): Rgb => fromHex(values.get(name) ?? "");
  const number = (name: string) => Number.parseFloat(values.get(name) ?? "");
  /** As `color-mix(in srgb, var(--name) var(--wash), transparent)` on the surface. */
  const wash = (name: string) => mixed(colour(name), colour("surface"), number("wash") / 100);
  const onAll = (text: string, backgrounds: string[]) =>
    backgrounds.map(
      (name) => [`${text} on ${name}`, contrast(colour(text), colour(name))] as const,
    );

  test("text can be read on every background", () => {
    const texts = ["ink", "ink-2", "ink-3", "accent-ink", "failed", "code-key", "code-word"];
    expectAtLeast(
      TEXT,
      texts.flatMap((text) => onAll(text, [...BACKGROUNDS, "log-bg"])),
    );
    expectAtLeast(TEXT, onAll("on-accent", ["accent", "accent-hover"]));
  });

  test("text can be read on the wash of a state, also dimmed or in the colour of the state", () => {
    const pairs = STATES.flatMap((state) => {
      const own = state === "running" ? "accent-ink" : state; // its colour is for icons
      return ["ink", "ink-2", "ink-3", own].map(
        (text) => [`${text} on the wash of ${state}`, contrast(colour(text), wash(state))] as const,
      );
    });
    expectAtLeast(TEXT, pairs);
  });

  test("icons of states and the frame around the focus are seen on every background", () => {
    expectAtLeast(
      GRAPHIC,
      [...STATES, "focus"].flatMap((name) => onAll(name, BACKGROUNDS)),
    );
  });

  test("a log can be read in all colours of terminals, and where a word is marked", () => {
    const names = Array.from({ length: 16 }, (_, at) => `ansi-${at}`);
    expectAtLeast(
      TEXT,
      names.flatMap((name) => onAll(name, ["log-bg"])),
    );
    const mark = mixed(colour("accent"), colour("log-bg"), 0.4);
    expectAtLeast(TEXT, [["ink on a mark", contrast(colour("ink"), mark)]]);
  });

  test("the names of all ranks can be read", () => {
    const pairs = RANKS.map((hue) => {
      const rank = fromOklch(number("rank-l"), number("rank-c"), hue);
      return [`hue ${hue}`, contrast(rank, colour("hover"))] as const;
    });
    expectAtLeast(TEXT, pairs);
  });

  test("every line of a chart is seen", () => {
    const pairs = Array.from({ length: 40 }, (_, at) => {
      const [l = 0, c = 0, hue = 0] = lineColor(at, scheme).slice(6, -1).split(" ").map(Number);
      return [`line ${at}`, contrast(fromOklch(l, c, hue), colour("surface"))] as const;
    });
    expectAtLeast(GRAPHIC, pairs);
  });
});

function expectAtLeast(least: number, pairs: (readonly [string, number])[]) {
  const low = pairs.filter(([, found]) => !(found >= least));
  expect(low.map(([name, found]) => `${name}: ${found.toFixed(2)}`)).toEqual([]);
  expect(pairs.length).toBeGreaterThan(0);
}

function tokensOf(scheme: Scheme): Map<string, string> {
  const start = `:root[data-mantine-color-scheme="${scheme}"] {`;
  const blocks = [tokens, ansi].map((css) => css.split(start)[1]?.split("}")[0] ?? "");
  const found = blocks.join("\n").matchAll(/--([\w-]+):\s*([^;]+);/g);
  return new Map([...found].map(([, name = "", value = ""]) => [name, value]));
}

function fromHex(hex: string): Rgb {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16) / 255) as Rgb;
}

function mixed(colour: Rgb, ground: Rgb, part: number): Rgb {
  return colour.map((value, at) => part * value + (1 - part) * (ground[at] ?? 0)) as Rgb;
}

/** By the definition of WCAG: of colours as sRGB, each part from 0 to 1. */
function contrast(a: Rgb, b: Rgb): number {
  const [light = 0, dark = 0] = [luminance(a), luminance(b)].sort((one, other) => other - one);
  return (light + 0.05) / (dark + 0.05);
}

function luminance(colour: Rgb): number {
  const [r, g, b] = colour.map((value) =>
    value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4,
  ) as Rgb;
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** By the definition of CSS Color 4; what sRGB cannot show is cut off. */
function fromOklch(lightness: number, chroma: number, hue: number): Rgb {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear
    .map((value) => Math.min(1, Math.max(0, value)))
    .map((value) =>
      value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055,
    ) as Rgb;
}
