import { Link } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import type { Me } from "@/api/types";
import { Icon, type IconName } from "@/ui/Icon";
import { LinkButton } from "@/ui/LinkButton";
import { Logo } from "@/ui/Logo";
import { ClusterGauge } from "./ClusterGauge";
import { NotificationMenu } from "./NotificationMenu";
import { UserMenu } from "./UserMenu";
import { maySubmit } from "@/features/jobs/NoVirtualCluster";
import css from "./Sidebar.module.css";

const MAIN_LINKS = [
  { to: "/", label: "Home", icon: "home" },
  { to: "/jobs", label: "Jobs", icon: "jobs" },
  { to: "/templates", label: "Templates", icon: "bookmark" },
  { to: "/apps", label: "Notebooks", icon: "screen" },
  { to: "/cluster", label: "Cluster", icon: "cluster" },
  { to: "/virtual-clusters", label: "Virtual clusters", icon: "hives" },
  { to: "/usage", label: "Usage", icon: "usage" },
  { to: "/simulator", label: "Simulator", icon: "branch" },
  { to: "/images", label: "Images", icon: "image" },
  { to: "/storages", label: "Storages", icon: "folder" },
  { to: "/datasets", label: "Datasets", icon: "tag" },
] as const;

const ADMIN_LINKS = [
  { to: "/cells", label: "Cells", icon: "cells" },
  { to: "/users", label: "Users", icon: "users" },
  { to: "/groups", label: "Groups", icon: "group" },
  { to: "/tokens", label: "API tokens", icon: "key" },
  { to: "/announcements", label: "Announcements", icon: "megaphone" },
  { to: "/audit", label: "Audit", icon: "clock" },
  { to: "/health", label: "Health", icon: "pulse" },
] as const;

interface Props {
  user: Me;
  /** On small screens: whether it is in. */
  open: boolean;
  /** Asks for the list of keys. */
  onShowShortcuts: () => void;
  /** On small screens: puts it away again. */
  onClose: () => void;
}

export function Sidebar({ user, open: drawn, onShowShortcuts: onKeys, onClose }: Props) {
  const aside = useRef<HTMLElement>(null);
  useEffect(() => {
    if (drawn) aside.current?.querySelector("a")?.focus();
  }, [drawn]);
  return (
    <aside
      ref={aside}
      className={css.sidebar}
      data-drawn={drawn || undefined}
      onKeyDown={({ key, target }) => {
        // Not of its menus, which stand elsewhere in the document.
        if (drawn && key === "Escape" && aside.current?.contains(target as Node)) onClose();
      }}
    >
      <div className={css.head}>
        <Link to="/" className={css.brand}>
          <Logo />
          Skep
        </Link>
        <NotificationMenu />
      </div>
      {maySubmit(user) ? (
        <LinkButton
          to="/jobs/new"
          size="sm"
          className={css.new}
          leftSection={<Icon name="plus" size={14} />}
          aria-keyshortcuts="n"
        >
          New job
        </LinkButton>
      ) : null}
      <nav aria-label="Main" className={css.places}>
        {MAIN_LINKS.map((place) => (
          <NavLink key={place.to} {...place} />
        ))}
        {user.is_admin ? (
          <>
            <div className={css.section}>Administration</div>
            {ADMIN_LINKS.map((place) => (
              <NavLink key={place.to} {...place} />
            ))}
          </>
        ) : null}
      </nav>
      <div className={css.foot}>
        <ClusterGauge />
        <UserMenu user={user} onKeys={onKeys} />
      </div>
    </aside>
  );
}

type NavTarget = (typeof MAIN_LINKS)[number]["to"] | (typeof ADMIN_LINKS)[number]["to"];

function NavLink({ to, label, icon }: { to: NavTarget; label: string; icon: IconName }) {
  return (
    <Link
      to={to}
      className={css.place}
      activeProps={{ "data-active": true }}
      activeOptions={{ exact: to === "/" }}
    >
      <Icon name={icon} />
      {label}
    </Link>
  );
}
