import type { ReactNode } from "react";
import { Logo } from "@/ui/Logo";
import { Honeycomb } from "./Honeycomb";
import css from "./LoginPage.module.css";

interface Props {
  name: string;
  foot?: string;
  children: ReactNode;
}

/** What stands around a form for somebody who is not logged in. */
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
      <footer className={css.foot}>{foot}</footer>
    </div>
  );
}
