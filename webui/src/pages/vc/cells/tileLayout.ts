import type { TreeCell } from "./treeCell";

/** Where GPUs of a node are drawn: treeCells of hexagons, and groups of them with a hull around each
 * level. Lengths are pixels. */
export interface Tile {
  width: number;
  height: number;
  spots: GpuPosition[];
  groups: Group[];
}

/** A GPU, or (without a cell) one of the same node that another virtual cluster owns. */
export interface GpuPosition {
  x: number;
  y: number;
  cell: TreeCell | null;
}

/** A cell between the GPUs and the node; `height` is 1 above the GPUs and grows. */
export interface Group {
  cell: TreeCell;
  height: number;
  spots: GpuPosition[];
}

const RADIUS = 12;
const PITCH_X = 23.5;
const PITCH_Y = 20.5;
/** Half the stroke that makes the hull of a group; hulls of higher groups are wider. */
const HULL = [0, 4, 8, 12, 16];
/** Broad to high, of groups: such that halves of a node are rhombs beside each other. */
const SHAPE = 1.3;

/** A hexagon that stands on its tip. */
export function hexagon({ x, y }: { x: number; y: number }): string {
  const corners = Array.from({ length: 6 }, (_, corner) => {
    const angle = (Math.PI / 3) * corner - Math.PI / 2;
    const [dx, dy] = [RADIUS * Math.cos(angle), RADIUS * Math.sin(angle)];
    return `${(x + dx).toFixed(1)} ${(y + dy).toFixed(1)}`;
  });
  return `M${corners.join("L")}Z`;
}

export function hull(height: number): number {
  return HULL[Math.min(height, HULL.length - 1)] ?? 0;
}

/** The node itself (or what is smaller and stands alone) has a frame and needs no hull. */
export function layOutTile(root: TreeCell): Tile {
  const inner = root.leaf ? singleGpu(root) : blockOf(root);
  const groups = inner.groups.filter((group) => group.cell !== root);
  const margin = hull(Math.max(0, ...groups.map((group) => group.height))) + 1;
  return { ...move({ ...inner, groups }, margin, margin), ...grown(inner, 2 * margin) };
}

function blockOf(cell: TreeCell): Tile {
  const children: Tile[] = (cell.children ?? []).map((child) =>
    child.leaf ? singleGpu(child) : blockOf(child),
  );
  const flat = children.every((child) => child.groups.length === 0);
  const others = Array.from({ length: cell.otherGpus }, () => singleGpu(null));
  const rest = others.length > 0 ? [honeycomb(others)] : [];
  const block = flat ? honeycomb([...children, ...others]) : side([...children, ...rest]);
  const height = 1 + Math.max(0, ...block.groups.map((group) => group.height));
  return { ...block, groups: [{ cell, height, spots: block.spots }, ...block.groups] };
}

function singleGpu(cell: TreeCell | null): Tile {
  const width = RADIUS * Math.sqrt(3);
  return {
    width,
    height: 2 * RADIUS,
    spots: [{ x: width / 2, y: RADIUS, cell }],
    groups: [],
  };
}

/** Single cells, every second row moved by half a cell so that they interlock. */
function honeycomb(cells: Tile[]): Tile {
  const columns = cells.length <= 4 ? cells.length : bestColumns(cells.length, PITCH_X, PITCH_Y);
  const placed = cells.map((cell, index) => {
    const row = Math.floor(index / columns);
    return move(cell, ((index % columns) + (row % 2) / 2) * PITCH_X, row * PITCH_Y);
  });
  return joined(placed);
}

/** Places groups beside and below each other, with space for their outlines. */
function side(blocks: Tile[]): Tile {
  const width = Math.max(...blocks.map((block) => block.width));
  const height = Math.max(...blocks.map((block) => block.height));
  const level = Math.max(0, ...blocks.flatMap((block) => block.groups.map((each) => each.height)));
  const gap = 2 * hull(level) + 2;
  const columns = bestColumns(blocks.length, width + gap, height + gap);
  // Pairs above each other interlock as single cells do.
  const shift = level === 1 && columns === 1 ? PITCH_X / 2 : 0;
  const placed = blocks.map((block, index) => {
    const row = Math.floor(index / columns);
    return move(
      block,
      (index % columns) * (width + gap) + (row % 2) * shift,
      row * (height + gap - (shift ? RADIUS / 2 : 0)),
    );
  });
  return joined(placed);
}

/** So many columns that the whole is about as broad as a page likes it. */
function bestColumns(count: number, width: number, height: number): number {
  let best = 1;
  let least = Infinity;
  for (let columns = 1; columns <= count; columns += 1) {
    const rows = Math.ceil(count / columns);
    const off = Math.abs(Math.log((columns * width) / (rows * height) / SHAPE));
    if (off < least) [best, least] = [columns, off];
  }
  return best;
}

function joined(tiles: Tile[]): Tile {
  const spots = tiles.flatMap((tile) => tile.spots);
  return {
    width: Math.max(0, ...spots.map((spot) => spot.x)) + (RADIUS * Math.sqrt(3)) / 2,
    height: Math.max(0, ...spots.map((spot) => spot.y)) + RADIUS,
    spots,
    groups: tiles.flatMap((tile) => tile.groups),
  };
}

/** Spots are shared between a tile and its groups: each is moved once. */
function move(tile: Tile, dx: number, dy: number): Tile {
  const moved = new Map<GpuPosition, GpuPosition>();
  for (const spot of tile.spots) moved.set(spot, { ...spot, x: spot.x + dx, y: spot.y + dy });
  const at = (spot: GpuPosition) => moved.get(spot) ?? spot;
  return {
    width: tile.width + dx,
    height: tile.height + dy,
    spots: tile.spots.map(at),
    groups: tile.groups.map((group) => ({ ...group, spots: group.spots.map(at) })),
  };
}

function grown({ width, height }: Tile, by: number) {
  return { width: Math.ceil(width + by), height: Math.ceil(height + by) };
}
