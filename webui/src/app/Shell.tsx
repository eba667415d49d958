import { useQuery } from "@tanstack/react-query";
import { Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { useState } from "react";
import { me, sessionEnded } from "@/api/session";
import { KeyHelp } from "./KeyHelp";
import { NoConnection } from "./NoConnection";
import { SessionEnded } from "./SessionEnded";
import { Sidebar } from "./Sidebar";
import { TopBar } from "./TopBar";
import { useShortcuts } from "./useShortcuts";
import css from "./Shell.module.css";

/** The frame around every page of somebody logged in. */
export function Shell() {
  const { data: user } = useQuery(me);
  const { data: ended } = useQuery(sessionEnded);
  const navigate = useNavigate();
  const address = useRouterState({ select: (state) => state.location });
  const [drawn, setDrawn] = useState(false);
  const [keys, setKeys] = useState(false);
  const [page, setPage] = useState(address.pathname);
  if (page !== address.pathname) {
    setPage(address.pathname);
    setDrawn(false);
  }

  useShortcuts({
    n: () => void navigate({ to: "/jobs/new" }),
    "/": () => document.querySelector<HTMLInputElement>("input[type=search]")?.focus(),
    "?": () => setKeys(true),
  });

  if (!user) return null;
  return (
    <div className={css.frame}>
      <a className={css.skip} href="#main">
        Skip to the page
      </a>
      <Sidebar user={user} drawn={drawn} onKeys={() => setKeys(true)} />
      {drawn ? <div className={css.shade} onClick={() => setDrawn(false)} aria-hidden /> : null}
      <div className={css.side}>
        <TopBar open={drawn} onToggle={() => setDrawn(!drawn)} />
        <NoConnection />
        <main className={css.main} id="main" tabIndex={-1}>
          <Outlet />
        </main>
      </div>
      <KeyHelp open={keys} onClose={() => setKeys(false)} />
      {ended ? <SessionEnded user={user} /> : null}
    </div>
  );
}
