import { ActionIcon } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { type RefObject, useRef, useState } from "react";
import { me, sessionEnded } from "@/api/session";
import { MfaSetupPage } from "@/pages/login/MfaSetupPage";
import { Icon } from "@/ui/Icon";
import { Logo } from "@/ui/Logo";
import { Announcements } from "./Announcements";
import { ConnectionBanner } from "./ConnectionBanner";
import { SessionExpiredDialog } from "./SessionExpiredDialog";
import { ShortcutsDialog, useShortcuts } from "./Shortcuts";
import { NotificationMenu } from "./NotificationMenu";
import { Sidebar } from "./Sidebar";
import css from "./Shell.module.css";

/** The frame around every page of a user who is logged in. */
export function Shell() {
  const { data: user } = useQuery(me);
  const { data: ended } = useQuery(sessionEnded);
  const navigate = useNavigate();
  const address = useRouterState({ select: (state) => state.location });
  const [drawn, setDrawn] = useState(false);
  const [keys, setKeys] = useState(false);
  const toggle = useRef<HTMLButtonElement>(null);
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
  if (user.mfa_setup_required) return <MfaSetupPage />;
  return (
    <div className={css.frame}>
      <a className={css.skip} href="#main">
        Skip to the page
      </a>
      <Sidebar
        user={user}
        open={drawn}
        onShowShortcuts={() => setKeys(true)}
        onClose={() => {
          setDrawn(false);
          toggle.current?.focus();
        }}
      />
      {drawn ? <div className={css.shade} onClick={() => setDrawn(false)} aria-hidden /> : null}
      <div className={css.side}>
        <TopBar toggle={toggle} open={drawn} onToggle={() => setDrawn(!drawn)} />
        <ConnectionBanner />
        <Announcements />
        <main className={css.main} id="main" tabIndex={-1}>
          <Outlet />
        </main>
      </div>
      <ShortcutsDialog open={keys} onClose={() => setKeys(false)} />
      {ended ? <SessionExpiredDialog user={user} /> : null}
    </div>
  );
}

interface TopBarProps {
  toggle: RefObject<HTMLButtonElement | null>;
  open: boolean;
  onToggle: () => void;
}

/** On small screens only: brings the sidebar in. */
function TopBar({ toggle, open, onToggle }: TopBarProps) {
  return (
    <header className={css.bar}>
      <ActionIcon ref={toggle} aria-label="Menu" aria-expanded={open} onClick={onToggle}>
        <Icon name="menu" />
      </ActionIcon>
      <Logo size={18} />
      <span className={css.name}>Skep</span>
      <span className={css.end}>
        <NotificationMenu />
      </span>
    </header>
  );
}
