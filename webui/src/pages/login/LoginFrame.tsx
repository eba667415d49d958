import type { ReactNode } from "react";
import { Logo } from "@/ui/Logo";
import { DocumentationLink } from "@/ui/Documentation";
import css from "./LoginFrame.module.css";

interface Props {
  name: string;
  foot?: string;
  children: ReactNode;
}

/** The frame around the forms of users who are not logged in. */
export function LoginFrame({ name, foot = " ", children }: Props) {
  return (
    <div className={css.page}>
      <Honeycomb />
      <main className={css.card}>
        <div className={css.brand}>
          <Logo size={34} />
          <div>
            <h1 className={css.name}>{name}</h1>
            <p className="dim">One GPU cluster, many hives</p>
          </div>
        </div>
        {children}
      </main>
      <footer className={css.foot}>
        {foot} <DocumentationLink />
      </footer>
    </div>
  );
}

const CELL = "m0-20 17.3 10v20L0 20l-17.3-10v-20Z";
// Cells of the comb that glow: column and row.
const LIT = new Set(["3 2", "4 2", "3 3", "9 5", "10 5", "10 6", "15 1", "6 7"]);

/** The comb behind the login, drawn once as a picture without meaning. */
function Honeycomb() {
  const cells = [];
  for (let row = 0; row < 10; row += 1) {
    for (let column = 0; column < 20; column += 1) {
      const x = column * 34.6 + (row % 2) * 17.3;
      cells.push(
        <path
          key={`${column} ${row}`}
          d={CELL}
          transform={`translate(${x} ${row * 30})`}
          data-lit={LIT.has(`${column} ${row}`) || undefined}
        />,
      );
    }
  }
  return (
    <svg
      className={css.honeycomb}
      viewBox="0 0 700 280"
      preserveAspectRatio="xMidYMid slice"
      aria-hidden="true"
    >
      {cells}
    </svg>
  );
}
