// The fonts of the machine are good enough, and nothing has to be loaded for them.
import theme from "vitepress/theme-without-fonts";
import "./site.css";

export default theme;
