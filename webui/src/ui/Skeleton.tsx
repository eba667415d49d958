import css from "./Skeleton.module.css";

/** Grey bars where rows will be. */
export function SkeletonRows({ rows = 8, height = 38 }: { rows?: number; height?: number }) {
  return (
    <div role="status" aria-label="Loading" className={css.rows}>
      {Array.from({ length: rows }, (_, row) => (
        <div className={css.row} style={{ height }} key={row}>
          <span className={css.bar} style={{ width: `${28 - ((row * 7) % 15)}%` }} />
          <span className={css.bar} style={{ width: "9%" }} />
          <span className={css.bar} style={{ width: `${14 - ((row * 5) % 7)}%` }} />
          <span className={css.bar} style={{ width: "6%" }} />
        </div>
      ))}
    </div>
  );
}
