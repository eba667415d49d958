import { useRouterState } from "@tanstack/react-router";
import { Icon } from "./Icon";

/** The page of the documentation, and its section, that is about each page; an address stands
 * before its route. Tests compare them with the router and with the files of docs/. */
export const DOCUMENTATION: Record<string, string> = {
  "/": "web.html#home",
  "/login": "people.html#passwords",
  "/reset-password": "people.html#recover-an-account-by-e-mail",
  "/forgot-password": "people.html#recover-an-account-by-e-mail",
  "/confirm-email": "people.html#recover-an-account-by-e-mail",
  "/unsubscribe": "notifications.html#e-mail",
  "/device": "people.html#log-in-the-command-line",
  "/jobs": "jobs.html#find-jobs",
  "/jobs/new": "web.html#write-a-job",
  "/jobs/compare": "jobs.html#plot-the-numbers-of-a-training",
  "/jobs/$id": "web.html#look-at-a-job",
  "/cluster": "observability.html#watch-nodes-and-gpus",
  "/virtual-clusters": "web.html#look-after-a-virtual-cluster",
  "/virtual-clusters/$name": "vc-admin-guide.html",
  "/archive": "jobs.html#archive",
  "/archive/$id": "jobs.html#archive",
  "/usage": "usage.html",
  "/simulator": "simulator.html#on-the-server",
  "/simulator/$id": "simulator.html#on-the-server",
  "/templates": "jobs.html#templates",
  "/templates/$name": "jobs.html#templates",
  "/images": "images.html#the-catalogue",
  "/storages": "storage.html",
  "/storages/$name": "storage.html#files",
  "/datasets": "storage.html#datasets",
  "/datasets/$id": "storage.html#datasets",
  "/apps": "notebooks.html",
  "/apps/$id": "notebooks.html#when-it-does-not-open",
  "/users": "people.html#many-users-at-once",
  "/tokens": "people.html#api-tokens-of-all-users",
  "/groups": "people.html#groups",
  "/audit": "audit.html",
  "/health": "observability.html#check-the-health-of-the-cluster",
  "/cells": "cells.html#physical-cells",
  "/settings": "web.html#settings",
  "/settings/$section": "web.html#settings",
  "/settings/security": "people.html#multi-factor-authentication",
  "/settings/tokens": "people.html#api-tokens",
  "/settings/registries": "images.html#private-images",
  "/settings/ssh-keys": "jobs.html#ssh-and-mpi-between-tasks",
  "/settings/notifications": "notifications.html",
  "/profile": "web.html#settings",
  "/notifications": "notifications.html#what-you-get",
  "/announcements": "notifications.html#for-administrators",
  "/about": "upgrade.html",
};

/** The address of a page of the documentation; "" where the server knows of none. */
export function documentationAddress(page: string): string {
  const element = document.querySelector<HTMLMetaElement>("meta[name=documentation]");
  return element?.content ? element.content + page : "";
}

/** A link to what the documentation says of the page that is shown. */
export function DocumentationLink({ className }: { className?: string }) {
  const shown = useRouterState({
    select: ({ matches, location }) =>
      DOCUMENTATION[location.pathname] ?? DOCUMENTATION[matches.at(-1)?.fullPath ?? ""],
  });
  const address = documentationAddress(shown ?? "index.html");
  if (!address) return null;
  return (
    <a
      className={className ?? "link"}
      href={address}
      target="_blank"
      rel="noopener"
      aria-label="Documentation of this page"
      title="Documentation of this page"
    >
      <Icon name="help" size={14} /> <span>Documentation</span>
    </a>
  );
}
