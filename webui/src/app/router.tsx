import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from "@tanstack/react-router";
import { queryClient } from "@/api/queries";
import { me } from "@/api/session";
import { LoginPage } from "@/pages/login/LoginPage";
import { JobsPage } from "@/pages/jobs/JobsPage";
import { jobsSearch } from "@/pages/jobs/search";
import { jobSearch } from "@/pages/job/search";
import { vcSearch } from "@/pages/vc/search";
import { Crash, Lost, Waiting } from "./Fallbacks";
import { Shell } from "./Shell";
import { text } from "./search";

const root = createRootRoute({ notFoundComponent: Lost });

const login = createRoute({
  getParentRoute: () => root,
  path: "/login",
  validateSearch: (search): { next?: string } => ({ next: text(search["next"]) }),
  component: LoginPage,
});

const reset = createRoute({
  getParentRoute: () => root,
  path: "/reset-password",
  validateSearch: (search): { user: string; token: string } => ({
    user: text(search["user"]) ?? "",
    token: text(search["token"]) ?? "",
  }),
  component: lazyRouteComponent(() => import("@/pages/login/ResetPage"), "ResetPage"),
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

const home = createRoute({
  getParentRoute: () => shell,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/jobs" });
  },
});

const jobs = createRoute({
  getParentRoute: () => shell,
  path: "/jobs",
  validateSearch: jobsSearch,
  component: JobsPage,
});

const submit = createRoute({
  getParentRoute: () => shell,
  path: "/jobs/new",
  validateSearch: (search): { from?: string } => ({ from: text(search["from"]) }),
  component: lazyRouteComponent(() => import("@/pages/submit/SubmitPage"), "SubmitPage"),
});

const job = createRoute({
  getParentRoute: () => shell,
  path: "/jobs/$id",
  validateSearch: jobSearch,
  component: lazyRouteComponent(() => import("@/pages/job/JobPage"), "JobPage"),
});

const cluster = createRoute({
  getParentRoute: () => shell,
  path: "/cluster",
  component: lazyRouteComponent(() => import("@/pages/cluster/ClusterPage"), "ClusterPage"),
});

const virtualClusters = createRoute({
  getParentRoute: () => shell,
  path: "/virtual-clusters",
  component: lazyRouteComponent(() => import("@/pages/vcs/VcsPage"), "VcsPage"),
});

const virtualCluster = createRoute({
  getParentRoute: () => shell,
  path: "/virtual-clusters/$name",
  validateSearch: vcSearch,
  component: lazyRouteComponent(() => import("@/pages/vc/VcPage"), "VcPage"),
});

const images = createRoute({
  getParentRoute: () => shell,
  path: "/images",
  component: lazyRouteComponent(() => import("@/pages/admin/ImagesPage"), "ImagesPage"),
});

const users = createRoute({
  getParentRoute: () => shell,
  path: "/users",
  component: lazyRouteComponent(() => import("@/pages/admin/UsersPage"), "UsersPage"),
});

const cells = createRoute({
  getParentRoute: () => shell,
  path: "/cells",
  component: lazyRouteComponent(() => import("@/pages/cells/CellsPage"), "CellsPage"),
});

const profile = createRoute({
  getParentRoute: () => shell,
  path: "/profile",
  component: lazyRouteComponent(() => import("@/pages/profile/ProfilePage"), "ProfilePage"),
});

export const router = createRouter({
  routeTree: root.addChildren([
    login,
    reset,
    shell.addChildren([
      home,
      jobs,
      submit,
      job,
      cluster,
      virtualClusters,
      virtualCluster,
      images,
      users,
      cells,
      profile,
    ]),
  ]),
  defaultPreload: "intent",
  defaultErrorComponent: Crash,
  defaultPendingComponent: Waiting,
  defaultPendingMs: 200,
  scrollRestoration: false,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
