import { createRootRoute, createRoute, createRouter, redirect } from "@tanstack/react-router";
import { queryClient } from "@/api/queryClient";
import { auditSearch } from "@/features/audit/search";
import { me } from "@/api/session";
import { LoginPage } from "@/pages/login/LoginPage";
import { jobsSearch } from "@/pages/jobs/searchParams";
import { jobSearch } from "@/pages/job/searchParams";
import { compareSearch } from "@/pages/compare/searchParams";
import { submitSearch } from "@/pages/submit/searchParams";
import { simulatorSearch } from "@/pages/simulator/searchParams";
import { templatesSearch } from "@/pages/templates/searchParams";
import { usageSearch } from "@/pages/usage/searchParams";
import { vcSearch } from "@/pages/vc/searchParams";
import { lazyPage } from "@/ui/lazyParts";
import { PageError, NotFound, PagePending } from "./RouteFallbacks";
import { Shell } from "./Shell";
import { enumParam, type TableSearch, tableSearch, textParam } from "@/format/searchParams";

const root = createRootRoute({ notFoundComponent: NotFound });

const login = createRoute({
  getParentRoute: () => root,
  path: "/login",
  validateSearch: (search): { next?: string; refused?: string } => ({
    next: textParam(search["next"]),
    refused: textParam(search["refused"]),
  }),
  component: LoginPage,
});

const reset = createRoute({
  getParentRoute: () => root,
  path: "/reset-password",
  validateSearch: (search): { user: string; token: string } => ({
    user: textParam(search["user"]) ?? "",
    token: textParam(search["token"]) ?? "",
  }),
  component: lazyPage(() => import("@/pages/login/ResetPage"), "ResetPage"),
});

const forgot = createRoute({
  getParentRoute: () => root,
  path: "/forgot-password",
  component: lazyPage(() => import("@/pages/login/ForgotPage"), "ForgotPage"),
});

const unsubscribe = createRoute({
  getParentRoute: () => root,
  path: "/unsubscribe",
  validateSearch: (search): { token: string } => ({ token: textParam(search["token"]) ?? "" }),
  component: lazyPage(() => import("@/pages/login/UnsubscribePage"), "UnsubscribePage"),
});

const shell = createRoute({
  getParentRoute: () => root,
  id: "shell",
  component: Shell,
  beforeLoad: async ({ location }) => {
    const user = await queryClient.ensureQueryData(me);
    if (!user) throw redirect({ to: "/login", search: { next: location.href } });
  },
});

const confirmEmail = createRoute({
  getParentRoute: () => shell,
  path: "/confirm-email",
  validateSearch: (search): { token: string } => ({ token: textParam(search["token"]) ?? "" }),
  component: lazyPage(() => import("@/pages/profile/ConfirmEmailPage"), "ConfirmEmailPage"),
});

const device = createRoute({
  getParentRoute: () => shell,
  path: "/device",
  validateSearch: (search): { code?: string } => ({ code: textParam(search["code"]) }),
  component: lazyPage(() => import("@/pages/profile/DevicePage"), "DevicePage"),
});

const home = createRoute({
  getParentRoute: () => shell,
  path: "/",
  component: lazyPage(() => import("@/pages/home/HomePage"), "HomePage"),
});

const jobs = createRoute({
  getParentRoute: () => shell,
  path: "/jobs",
  validateSearch: jobsSearch,
  component: lazyPage(() => import("@/pages/jobs/JobsPage"), "JobsPage"),
});

const submit = createRoute({
  getParentRoute: () => shell,
  path: "/jobs/new",
  validateSearch: submitSearch,
  component: lazyPage(() => import("@/pages/submit/SubmitPage"), "SubmitPage"),
});

const compare = createRoute({
  getParentRoute: () => shell,
  path: "/jobs/compare",
  validateSearch: compareSearch,
  component: lazyPage(() => import("@/pages/compare/ComparePage"), "ComparePage"),
});

const job = createRoute({
  getParentRoute: () => shell,
  path: "/jobs/$id",
  validateSearch: jobSearch,
  component: lazyPage(() => import("@/pages/job/JobPage"), "JobPage"),
});

const archive = createRoute({
  getParentRoute: () => shell,
  path: "/archive",
  validateSearch: (search): { q?: string | undefined; cursor?: string | undefined } => ({
    q: textParam(search["q"]),
    cursor: textParam(search["cursor"]),
  }),
  component: lazyPage(() => import("@/pages/archive/ArchivePage"), "ArchivePage"),
});

const archivedJob = createRoute({
  getParentRoute: () => shell,
  path: "/archive/$id",
  component: lazyPage(() => import("@/pages/archive/ArchivedJobPage"), "ArchivedJobPage"),
});

const cluster = createRoute({
  getParentRoute: () => shell,
  path: "/cluster",
  component: lazyPage(() => import("@/pages/cluster/ClusterPage"), "ClusterPage"),
});

const virtualClusters = createRoute({
  getParentRoute: () => shell,
  path: "/virtual-clusters",
  component: lazyPage(() => import("@/pages/vcs/VirtualClustersPage"), "VirtualClustersPage"),
});

const virtualCluster = createRoute({
  getParentRoute: () => shell,
  path: "/virtual-clusters/$name",
  validateSearch: vcSearch,
  component: lazyPage(() => import("@/pages/vc/VcPage"), "VcPage"),
});

const usage = createRoute({
  getParentRoute: () => shell,
  path: "/usage",
  validateSearch: usageSearch,
  component: lazyPage(() => import("@/pages/usage/UsagePage"), "UsagePage"),
});

const simulator = createRoute({
  getParentRoute: () => shell,
  path: "/simulator",
  validateSearch: simulatorSearch,
  component: lazyPage(() => import("@/pages/simulator/SimulatorPage"), "SimulatorPage"),
});

const simulation = createRoute({
  getParentRoute: () => shell,
  path: "/simulator/$id",
  component: lazyPage(() => import("@/pages/simulator/SimulationPage"), "SimulationPage"),
});

const templates = createRoute({
  getParentRoute: () => shell,
  path: "/templates",
  validateSearch: templatesSearch,
  component: lazyPage(() => import("@/pages/templates/TemplatesPage"), "TemplatesPage"),
});

const template = createRoute({
  getParentRoute: () => shell,
  path: "/templates/$name",
  component: lazyPage(() => import("@/pages/templates/TemplatePage"), "TemplatePage"),
});

const images = createRoute({
  getParentRoute: () => shell,
  path: "/images",
  validateSearch: tableSearch,
  component: lazyPage(() => import("@/pages/admin/ImagesPage"), "ImagesPage"),
});

const storages = createRoute({
  getParentRoute: () => shell,
  path: "/storages",
  validateSearch: tableSearch,
  component: lazyPage(() => import("@/pages/admin/StoragesPage"), "StoragesPage"),
});

const storageFiles = createRoute({
  getParentRoute: () => shell,
  path: "/storages/$name",
  validateSearch: (search: Record<string, unknown>): { path?: string } & TableSearch => ({
    ...tableSearch(search),
    path: textParam(search["path"]),
  }),
  component: lazyPage(() => import("@/pages/storage/StorageFilesPage"), "StorageFilesPage"),
});

const datasets = createRoute({
  getParentRoute: () => shell,
  path: "/datasets",
  validateSearch: tableSearch,
  component: lazyPage(() => import("@/pages/datasets/DatasetsPage"), "DatasetsPage"),
});

const dataset = createRoute({
  getParentRoute: () => shell,
  path: "/datasets/$id",
  component: lazyPage(() => import("@/pages/datasets/DatasetPage"), "DatasetPage"),
});

const apps = createRoute({
  getParentRoute: () => shell,
  path: "/apps",
  validateSearch: tableSearch,
  component: lazyPage(() => import("@/pages/apps/AppsPage"), "AppsPage"),
});

const openApp = createRoute({
  getParentRoute: () => shell,
  path: "/apps/$id",
  validateSearch: (search: Record<string, unknown>): { state?: string } => ({
    state: textParam(search["state"]),
  }),
  component: lazyPage(() => import("@/pages/apps/OpenAppPage"), "OpenAppPage"),
});

const users = createRoute({
  getParentRoute: () => shell,
  path: "/users",
  validateSearch: tableSearch,
  component: lazyPage(() => import("@/pages/admin/UsersPage"), "UsersPage"),
});

const TOKEN_ORDERS = ["owner", "-owner", "name", "-name", "created_at", "-created_at"] as const;

const tokens = createRoute({
  getParentRoute: () => shell,
  path: "/tokens",
  validateSearch: (
    search: Record<string, unknown>,
  ): { user?: string; order?: string; cursor?: string } => ({
    user: textParam(search["user"]),
    order: enumParam(search["order"], TOKEN_ORDERS),
    cursor: textParam(search["cursor"]),
  }),
  component: lazyPage(() => import("@/pages/admin/TokensPage"), "TokensPage"),
});

const groups = createRoute({
  getParentRoute: () => shell,
  path: "/groups",
  validateSearch: tableSearch,
  component: lazyPage(() => import("@/pages/admin/GroupsPage"), "GroupsPage"),
});

const audit = createRoute({
  getParentRoute: () => shell,
  path: "/audit",
  validateSearch: auditSearch,
  component: lazyPage(() => import("@/pages/admin/AuditPage"), "AuditPage"),
});

const health = createRoute({
  getParentRoute: () => shell,
  path: "/health",
  component: lazyPage(() => import("@/pages/admin/HealthPage"), "HealthPage"),
});

const cells = createRoute({
  getParentRoute: () => shell,
  path: "/cells",
  component: lazyPage(() => import("@/pages/cells/CellsPage"), "CellsPage"),
});

const settings = createRoute({
  getParentRoute: () => shell,
  path: "/settings",
  beforeLoad: () => {
    throw redirect({ to: "/settings/$section", params: { section: "profile" } });
  },
});

const settingsSection = createRoute({
  getParentRoute: () => shell,
  path: "/settings/$section",
  validateSearch: (search: Record<string, unknown>): { refused?: string } => ({
    refused: textParam(search["refused"]),
  }),
  component: lazyPage(() => import("@/pages/profile/SettingsPage"), "SettingsPage"),
});

/** The former address of the settings. */
const profile = createRoute({
  getParentRoute: () => shell,
  path: "/profile",
  beforeLoad: () => {
    throw redirect({ to: "/settings/$section", params: { section: "profile" } });
  },
});

const notifications = createRoute({
  getParentRoute: () => shell,
  path: "/notifications",
  validateSearch: (search): { unread?: boolean; cursor?: string } => ({
    unread: search["unread"] === true || undefined,
    cursor: textParam(search["cursor"]),
  }),
  component: lazyPage(() => import("@/pages/notifications/NotificationsPage"), "NotificationsPage"),
});

const announcements = createRoute({
  getParentRoute: () => shell,
  path: "/announcements",
  validateSearch: tableSearch,
  component: lazyPage(() => import("@/pages/admin/AnnouncementsPage"), "AnnouncementsPage"),
});

const about = createRoute({
  getParentRoute: () => shell,
  path: "/about",
  component: lazyPage(() => import("@/pages/about/AboutPage"), "AboutPage"),
});

export const router = createRouter({
  routeTree: root.addChildren([
    login,
    reset,
    forgot,
    unsubscribe,
    shell.addChildren([
      home,
      jobs,
      submit,
      compare,
      job,
      archive,
      archivedJob,
      cluster,
      virtualClusters,
      virtualCluster,
      usage,
      simulator,
      simulation,
      templates,
      template,
      images,
      storages,
      storageFiles,
      datasets,
      dataset,
      apps,
      openApp,
      users,
      tokens,
      groups,
      cells,
      audit,
      health,
      settings,
      settingsSection,
      profile,
      confirmEmail,
      device,
      notifications,
      announcements,
      about,
    ]),
  ]),
  defaultPreload: "intent",
  defaultErrorComponent: PageError,
  defaultPendingComponent: PagePending,
  defaultPendingMs: 200,
  scrollRestoration: false,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
