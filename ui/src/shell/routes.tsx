import { type ReactNode, useEffect } from "react";
import { Link, matchRoute, Route, Switch, useLocation, useRouter } from "wouter";
import { Empty } from "../parts/notice.tsx";
import { Page } from "../parts/page.tsx";
import { Failsafe } from "./failsafe.tsx";
import { type LazyPage, lazyPage } from "./lazy-page.tsx";

const ROUTES: readonly (readonly [path: string, page: LazyPage])[] = [
  ["/", lazyPage(() => import("../pages/overview/overview-page.tsx"), "OverviewPage")],
  ["/backfills", lazyPage(() => import("../pages/backfills/backfill-list.tsx"), "BackfillList")],
  [
    "/backfills/new",
    lazyPage(() => import("../pages/backfills/create-backfill.tsx"), "CreateBackfill"),
  ],
  [
    "/backfills/:backfill_id",
    lazyPage(() => import("../pages/backfills/backfill-page.tsx"), "BackfillPage"),
  ],
  ["/assets", lazyPage(() => import("../pages/assets/asset-list.tsx"), "AssetList")],
  ["/lineage", lazyPage(() => import("../pages/assets/lineage-page.tsx"), "LineagePage")],
  ["/assets/:asset_key", lazyPage(() => import("../pages/assets/asset-page.tsx"), "AssetPage")],
  ["/runs", lazyPage(() => import("../pages/runs/run-list.tsx"), "RunList")],
  ["/runs/:run_id", lazyPage(() => import("../pages/runs/run-page.tsx"), "RunPage")],
  [
    "/runs/:run_id/tasks/:task_key",
    lazyPage(() => import("../pages/runs/task-page.tsx"), "TaskPage"),
  ],
  ["/schedules", lazyPage(() => import("../pages/schedules/schedule-list.tsx"), "ScheduleList")],
  [
    "/schedules/new",
    lazyPage(() => import("../pages/schedules/create-schedule.tsx"), "CreateSchedule"),
  ],
  [
    "/schedules/:schedule_id/edit",
    lazyPage(() => import("../pages/schedules/edit-schedule.tsx"), "EditSchedule"),
  ],
  [
    "/schedules/:schedule_id",
    lazyPage(() => import("../pages/schedules/schedule-page.tsx"), "SchedulePage"),
  ],
  ["/sensors", lazyPage(() => import("../pages/sensors/sensor-list.tsx"), "SensorList")],
  ["/sensors/:sensor_id", lazyPage(() => import("../pages/sensors/sensor-page.tsx"), "SensorPage")],
  ["/webhooks", lazyPage(() => import("../pages/webhooks/webhook-list.tsx"), "WebhookList")],
  ["/syncs", lazyPage(() => import("../pages/syncs/sync-list.tsx"), "SyncList")],
  ["/syncs/:sync_id", lazyPage(() => import("../pages/syncs/sync-page.tsx"), "SyncPage")],
  ["/moves", lazyPage(() => import("../pages/moves/move-list.tsx"), "MoveList")],
  ["/moves/new", lazyPage(() => import("../pages/moves/plan-move.tsx"), "PlanMove")],
  ["/moves/:move_id", lazyPage(() => import("../pages/moves/move-page.tsx"), "MovePage")],
  ["/splits", lazyPage(() => import("../pages/splits/split-list.tsx"), "SplitList")],
  ["/splits/new", lazyPage(() => import("../pages/splits/plan-split.tsx"), "PlanSplit")],
  ["/splits/:split_id", lazyPage(() => import("../pages/splits/split-page.tsx"), "SplitPage")],
  ["/work/:kind", lazyPage(() => import("../pages/work/kind-list.tsx"), "KindList")],
  ["/work/:kind/:id", lazyPage(() => import("../pages/work/kind-page.tsx"), "KindPage")],
  ["/routing", lazyPage(() => import("../pages/routing/routing-page.tsx"), "RoutingPage")],
  ["/conflicts", lazyPage(() => import("../pages/runs/conflict-list.tsx"), "ConflictList")],
  ["/ledger", lazyPage(() => import("../pages/ledger/ledger-page.tsx"), "LedgerPage")],
  ["/ledger/:entity", lazyPage(() => import("../pages/ledger/entity-page.tsx"), "EntityPage")],
];

/** Begins to load the page that the address names, while it is still asked who looks at it. */
export function usePageLoading(): void {
  const [location] = useLocation();
  const { parser } = useRouter();
  useEffect(() => {
    ROUTES.find(([path]) => matchRoute(parser, path, location)[0])?.[1].load();
  }, [location, parser]);
}

/** The page that the address names. */
export function Routes(): ReactNode {
  const [location] = useLocation();
  return (
    <Switch>
      {ROUTES.map(([path, Shown]) => (
        <Route key={path} path={path}>
          {/* What was typed or chosen for one thing does not go along to the next of its kind. */}
          <Failsafe key={location}>
            <Shown />
          </Failsafe>
        </Route>
      ))}
      <Route>
        <Page title="Not found">
          <Empty title="Page not found.">
            <p>
              Check the address, or go to the <Link href="/">overview</Link>.
            </p>
          </Empty>
        </Page>
      </Route>
    </Switch>
  );
}
