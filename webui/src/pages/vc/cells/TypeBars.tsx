import { Fragment } from "react";
import type { OwnedType } from "@/api/vc";
import css from "./TypeBars.module.css";

/** Per type of cell, how much of what is owned is used, lent, free, bad or missing. */
export function TypeBars({ types }: { types: OwnedType[] }) {
  return (
    <ul className={css.types} aria-label="Cells by type">
      {types.map((type) => (
        <li key={type.type} className={css.type}>
          <span className={css.words}>
            <b className="num">{type.owned}</b> × {type.words}
          </span>
          <Bar type={type} />
          <span className={css.numbers}>
            {partsOf(type).map(({ part, number, words }) => (
              <Fragment key={part}>
                {number > 0 || part === "used" ? (
                  <span data-part={part}>
                    <b className="num">{number}</b> {words}
                  </span>
                ) : null}
              </Fragment>
            ))}
          </span>
        </li>
      ))}
    </ul>
  );
}

function Bar({ type }: { type: OwnedType }) {
  const parts = partsOf(type);
  const words = parts.map(({ number, words }) => `${number} ${words}`).join(", ");
  return (
    <span className={css.bar} role="img" aria-label={`${type.words}: ${words}`}>
      {parts.map(({ part, number }) =>
        number > 0 ? <span key={part} data-part={part} style={{ flexGrow: number }} /> : null,
      )}
    </span>
  );
}

/** In the order of the bar; together they are all that is owned. */
export function partsOf({ used, free, bad, missing, borrowed_out: lent }: OwnedType) {
  return [
    { part: "used", number: used, words: "in use" },
    { part: "lent", number: lent, words: "lent out" },
    { part: "free", number: free, words: "free" },
    { part: "bad", number: bad, words: "bad" },
    { part: "missing", number: missing, words: "missing" },
  ];
}
