import { Link } from "@tanstack/react-router";
import type { Me } from "@/api/types";
import { Icon, type IconName } from "@/ui/Icon";
import { LinkButton } from "@/ui/LinkButton";
import { Logo } from "@/ui/Logo";
import { ClusterGauge } from "./ClusterGauge";
import { UserMenu } from "./UserMenu";
import { isOutside } from "@/pages/jobs/NoVirtualCluster";
import css from "./Sidebar.module.css";

const WORK = [
  { to: "/jobs", label: "Jobs", icon: "jobs" },
  { to: "/cluster", label: "Cluster", icon: "cluster" },
  { to: "/virtual-clusters", label: "Virtual clusters", icon: "hives" },
  { to: "/images", label: "Images", icon: "image" },
] as const;

const ADMIN = [
  { to: "/cells", label: "Cells", icon: "cells" },
  { to: "/users", label: "Users", icon: "users" },
] as const;

interface Props {
  user: Me;
  /** On small screens: whether it is in. */
  drawn: boolean;
  /** Asks for the list of keys. */
  onKeys: () => void;
}

export function Sidebar({ user, drawn, onKeys }: Props) {
  return (
    <aside className={css.sidebar} data-drawn={drawn || undefined}>
      <Link to="/jobs" className={css.brand}>
        <Logo />
        Skep
      </Link>
      {isOutside(user) ? null : (
        <LinkButton
          to="/jobs/new"
          size="sm"
          className={css.new}
          leftSection={<Icon name="plus" size={14} />}
          aria-keyshortcuts="n"
        >
          New job
        </LinkButton>
      )}
      <nav aria-label="Main">
        {WORK.map((place) => (
          <Place key={place.to} {...place} />
        ))}
        {user.is_admin ? (
          <>
            <div className={css.section}>Administration</div>
            {ADMIN.map((place) => (
              <Place key={place.to} {...place} />
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

type To = (typeof WORK)[number]["to"] | (typeof ADMIN)[number]["to"];

function Place({ to, label, icon }: { to: To; label: string; icon: IconName }) {
  return (
    <Link to={to} className={css.place} activeProps={{ "data-active": true }}>
      <Icon name={icon} />
      {label}
    </Link>
  );
}
