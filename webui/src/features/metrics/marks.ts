import type uPlot from "uplot";
import { cssToken } from "./charts";

/** What happened to the job at a moment, in seconds since the epoch. */
export interface Mark {
  at: number;
  label: string;
}

const MIN_GAP = 60; // CSS pixels between two labels

/** Draws a dashed line at each mark, and its label where it fits beside the one before. */
export function drawMarks(marks: Mark[]): (plot: uPlot) => void {
  return (plot) => {
    const { ctx, bbox } = plot;
    const ratio = bbox.width / plot.over.clientWidth || 1;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = cssToken("--ink-3");
    ctx.font = `${10 * ratio}px Inter, sans-serif`;
    ctx.setLineDash([4 * ratio, 4 * ratio]);
    let last = -Infinity;
    for (const { at, label } of marks) {
      const x = plot.valToPos(at, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      if (x - last < MIN_GAP * ratio) continue;
      const before = x + ctx.measureText(label).width + 4 * ratio > bbox.left + bbox.width;
      ctx.textAlign = before ? "right" : "left";
      ctx.fillText(label, x + (before ? -4 : 4) * ratio, bbox.top + 10 * ratio);
      last = x;
    }
    ctx.restore();
  };
}
